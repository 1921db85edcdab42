# What a terminal of lembasd has bash read (`bash --rcfile`): the files of a login shell, then marks around prompts.
#
# Marks: OSC 133 A and B around the prompt (in PS1), C when a command begins (in PS0), D with its status when it has
# ended, and OSC 7 for the directory. Every name here begins with __lembas_, but for the function
# and alias `logout`.
# The functions come before the person's files, so that no alias of theirs changes how they are read; nor may they
# trust an option (set -u, set -e, nocasematch …) or IFS.

# bash says `-bash` where it is a login shell; so do scripts that look (bash 5.0 and later)
BASH_ARGV0=-bash

# a child with an exported PS1 finds these empty, and shows nothing of ours
__lembas_a=$'\001\e]133;A\a\002'
__lembas_b=$'\001\e]133;B\a\002'
__lembas_c=$'\e]133;C\a'
__lembas_to_a='${__lembas_a-}'
__lembas_to_b='${__lembas_b-}'
# the text of C, and a note that it was shown
__lembas_to_c='${__lembas_c+${__lembas_c:$((__lembas_ran=1,0))}}'

# Says where we are, in __lembas_url: each byte that is not plain as %XX.
__lembas_locate() {
    builtin local LC_ALL=C __lembas_left="${PWD-}" __lembas_plain __lembas_byte
    __lembas_path=${PWD-}
    __lembas_url=file://${HOSTNAME-}
    while builtin test -n "$__lembas_left"; do
        __lembas_plain=${__lembas_left%%[!A-Za-z0-9/._~-]*}
        __lembas_url+=$__lembas_plain
        __lembas_left=${__lembas_left:${#__lembas_plain}}
        if builtin test -n "$__lembas_left"; then
            builtin printf -v __lembas_byte %d "'$__lembas_left"
            builtin printf -v __lembas_byte %%%02X "$((__lembas_byte & 255))"
            __lembas_url+=$__lembas_byte
            __lembas_left=${__lembas_left:1}
        fi
    done
}

# Puts the marks where a hook before us has built the prompt anew. Without promptvars the text must hold them itself, and
# nothing tells us that a command has begun.
__lembas_mark() {
    builtin local __lembas_ps1="${PS1-}" __lembas_ps0="${PS0-}"
    __lembas_ps1=${__lembas_ps1//"$__lembas_to_a"/}
    __lembas_ps1=${__lembas_ps1//"$__lembas_to_b"/}
    __lembas_ps1=${__lembas_ps1//'\[\e]133;A\a\]'/}
    __lembas_ps1=${__lembas_ps1//'\[\e]133;B\a\]'/}
    __lembas_ps0=${__lembas_ps0//"$__lembas_to_c"/}
    __lembas_ps0=${__lembas_ps0//'\e]133;C\a'/}
    if builtin shopt -q promptvars; then
        PS1=$__lembas_to_a$__lembas_ps1$__lembas_to_b
        PS0=$__lembas_ps0$__lembas_to_c
    else
        PS1='\[\e]133;A\a\]'$__lembas_ps1'\[\e]133;B\a\]'
        PS0=$__lembas_ps0'\e]133;C\a'
    fi
}

# The last of PROMPT_COMMAND. Its errors, and its lines under `set -x`, are not for the person.
__lembas_prompt() {
    builtin local __lembas_status="$?" __lembas_marks=
    if builtin test -n "$__lembas_ran"; then
        __lembas_marks=$'\e]133;D;'${__lembas_kept:-$__lembas_status}$'\a'
    fi
    builtin test "${PWD-}" = "$__lembas_path" || __lembas_locate
    builtin printf %s "$__lembas_marks"$'\e]7;'"$__lembas_url"$'\a' >/dev/tty || :
    __lembas_hook
    __lembas_mark
    # where bash-preexec has installed itself just before us, it takes us for what a command belongs to
    if builtin declare -F __bp_interactive_mode >/dev/null; then __bp_interactive_mode force; fi
    __lembas_ran= __lembas_kept= __lembas_waits=1
    builtin return 0
} 2>/dev/null

if [[ ${BASH_VERSINFO[0]} -gt 5 || (${BASH_VERSINFO[0]} -eq 5 && ${BASH_VERSINFO[1]} -ge 1) ]]; then
    # An element of its own: those before it find $?, PIPESTATUS and $PROMPT_COMMAND as without us.
    __lembas_hook() {
        builtin local -a __lembas_others
        builtin local __lembas_index __lembas_last=
        __lembas_others=()
        for __lembas_index in "${!PROMPT_COMMAND[@]}"; do
            __lembas_last=${PROMPT_COMMAND[__lembas_index]}
            if builtin test "$__lembas_last" != __lembas_prompt; then
                __lembas_others+=("$__lembas_last")
            fi
        done
        # bash-preexec wants a command of its own behind all others, which builds no prompt
        if [[ $__lembas_last != __lembas_prompt && $__lembas_last != __bp_interactive_mode ]]; then
            PROMPT_COMMAND=("${__lembas_others[@]-}" __lembas_prompt)
        fi
    }
else
    # One text, kept from children, who know nothing of us; the status is kept before it runs.
    __lembas_keep() {
        __lembas_kept=$? __lembas_waits=
        builtin return "$__lembas_kept"
    }
    __lembas_hook() {
        builtin local __lembas_others="${PROMPT_COMMAND-}"
        if [[ $__lembas_others == *$'__lembas_keep\n'*$'\n__lembas_prompt' ||
            $__lembas_others == *$'__lembas_keep\n'*$'\n__lembas_prompt\n__bp_interactive_mode' ]]; then
            builtin return 0
        fi
        __lembas_others=${__lembas_others//$'__lembas_keep\n'/}
        __lembas_others=${__lembas_others//$'\n__lembas_prompt'/}
        PROMPT_COMMAND=$'__lembas_keep\n'${__lembas_others:-:}$'\n__lembas_prompt'
        builtin export -n PROMPT_COMMAND
    }
fi

if [[ ${BASH_VERSINFO[0]} -lt 4 || (${BASH_VERSINFO[0]} -eq 4 && ${BASH_VERSINFO[1]} -lt 4) ]]; then
    # No PS0: a DEBUG trap sees a command begin, where the person has none.
    __lembas_run() {
        if builtin test -n "$__lembas_waits" -a -z "${COMP_LINE-}" && [[ $BASH_COMMAND != __lembas_* ]]; then
            __lembas_waits= __lembas_ran=1
            builtin printf %s "$__lembas_c" >/dev/tty || :
        fi
    }
fi

# ~/.bash_logout, which bash reads for a login shell alone. In front of an EXIT trap of the person's, as there.
__lembas_leave() {
    builtin local __lembas_status="$?"
    if [[ -r ~/.bash_logout ]]; then . ~/.bash_logout; fi
    builtin return "$__lembas_status"
}

# After the person's files: one command, for a DEBUG trap of theirs sees each.
__lembas_begin() {
    __lembas_path= __lembas_url= __lembas_ran= __lembas_kept= __lembas_waits=
    __lembas_locate
    __lembas_hook
    if ! builtin declare -F logout >/dev/null; then
        # bash lets only the builtin itself, said twice, leave stopped jobs behind
        logout() { builtin exit "$@"; }
        builtin alias logout >/dev/null 2>&1 || builtin alias logout=exit
    fi
    if [[ -r ~/.bash_logout ]]; then
        builtin local __lembas_trap
        __lembas_trap=$(builtin trap -p EXIT) || :
        builtin eval "builtin set -- ${__lembas_trap:-trap -- ''}"
        builtin trap -- $'__lembas_leave\n'"$3" EXIT
    fi
    if builtin declare -F __lembas_run >/dev/null && builtin test -z "$(builtin trap -p DEBUG)"; then
        builtin trap __lembas_run DEBUG
    fi
    builtin unset -f __lembas_begin
    builtin return 0
}

# A login shell's files, as bash(1) has them. Where bash has read /etc/bash.bashrc itself by now, /etc/profile must not
# read it again, which it does for a shell with a prompt.
if [[ -r /etc/bash.bashrc || -r /etc/bash/bashrc ]]; then
    __lembas_ps1=${PS1-}
    unset PS1
fi
if [[ -r /etc/profile ]]; then . /etc/profile; fi
: "${PS1=${__lembas_ps1-}}"
unset __lembas_ps1
if [[ -r ~/.bash_profile ]]; then
    . ~/.bash_profile
elif [[ -r ~/.bash_login ]]; then
    . ~/.bash_login
elif [[ -r ~/.profile ]]; then
    . ~/.profile
fi
__lembas_begin
