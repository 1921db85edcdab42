# Marks around prompts for a terminal of lembasd; `zdotdir/.zshenv` reads it before the person's own files.
#
# Marks: OSC 133 A and B around the prompt (in PROMPT, while it is shown), C when a command begins, D with its status when
# it has ended, and OSC 7 for the directory. Every name here begins with __lembas_. The functions run whatever options
# the person has set.

[[ -o interactive ]] || builtin return 0

typeset -g __lembas_a=$'%{\e]133;A\a%}' __lembas_b=$'%{\e]133;B\a%}'
typeset -g __lembas_path= __lembas_url= __lembas_ran=

# Says where we are, in __lembas_url: each byte that is not plain as %XX.
__lembas_locate() {
    builtin emulate -LR zsh -o no_aliases -o no_multibyte -o extended_glob
    builtin local left=$PWD plain byte
    builtin local LC_ALL=C
    __lembas_path=$PWD
    __lembas_url=file://$HOST
    while [[ -n $left ]]; do
        plain=${left%%[^A-Za-z0-9/._~-]*}
        __lembas_url+=$plain
        left=${left[$#plain+1,-1]}
        if [[ -n $left ]]; then
            byte=${left[1]}
            builtin printf -v byte %02X $(( #byte & 255 ))
            __lembas_url+=%$byte
            left=${left[2,-1]}
        fi
    done
}

__lembas_unmark() {
    builtin emulate -LR zsh -o no_aliases
    [[ $PROMPT != *$__lembas_a* ]] || PROMPT=${PROMPT//"$__lembas_a"/}
    [[ $PROMPT != *$__lembas_b* ]] || PROMPT=${PROMPT//"$__lembas_b"/}
}

# Puts the marks around what the hooks before us have made of the prompt.
__lembas_mark() {
    builtin emulate -LR zsh -o no_aliases
    __lembas_unmark
    PROMPT=$__lembas_a$PROMPT$__lembas_b
}

__lembas_precmd() {
    builtin local -i __lembas_status=$? __lembas_percent=0
    if [[ -o prompt_percent ]]; then __lembas_percent=1; fi
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset
    builtin local __lembas_marks=
    if [[ -n $__lembas_ran ]]; then
        __lembas_ran=
        __lembas_marks=$'\e]133;D;'$__lembas_status$'\a'
    fi
    [[ $PWD == "$__lembas_path" ]] || __lembas_locate
    builtin print -rn -- "$__lembas_marks"$'\e]7;'"$__lembas_url"$'\a' >/dev/tty
    if (( ! ${preexec_functions[(I)__lembas_preexec]} )); then
        preexec_functions+=(__lembas_preexec)
    fi
    # without prompt_percent nothing could tell zsh that the marks have no width
    (( __lembas_percent )) || builtin return 0
    __lembas_mark
    [[ $precmd_functions[-1] != __lembas_precmd ]] || builtin return 0
    # Others come after us this time, at the first prompt as a rule: zsh runs what is scheduled after all of them.
    precmd_functions=(${precmd_functions:#__lembas_precmd} __lembas_precmd)
    if builtin zmodload -F zsh/sched b:sched 2>/dev/null; then
        builtin sched +0 __lembas_mark
    fi
}

__lembas_preexec() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset
    __lembas_ran=1
    builtin print -rn -- $'\e]133;C\a' >/dev/tty
    # what runs now finds the person's own prompt
    __lembas_unmark
    if (( ! ${precmd_functions[(I)__lembas_precmd]} )); then
        precmd_functions+=(__lembas_precmd)
    fi
}

typeset -ga precmd_functions preexec_functions
precmd_functions+=(__lembas_precmd)
preexec_functions+=(__lembas_preexec)
