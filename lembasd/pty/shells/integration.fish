# Marks around prompts for a terminal of lembasd; read after the person's own files (`fish --init-command`).
#
# Marks: OSC 133 A and B around the prompt, C when a command begins, D with its status when it has ended, and OSC 7 for the
# directory. fish 4 marks by itself (4.0 to 4.2 all but B); what it says is not said twice. Every name here begins with
# __lembas_.

status is-interactive; or return

# the marks that are left to us
set -g __lembas_marks A B C D
set -l parts (string split . -- $version)
if test "$parts[1]" -ge 4 2>/dev/null
    status test-feature mark-prompt 2>/dev/null
    # 1: the person has turned them off in fish. Versions without the feature have no way to.
    if test $status -ne 1
        set __lembas_marks B
        if test "$parts[1]" -gt 4; or test "$parts[2]" -ge 3
            set __lembas_marks
        end
    end
end

function __lembas_prompt --on-event fish_prompt
    builtin printf '\e]7;file://%s%s\a' $hostname (builtin string escape --style=url -- $PWD)
    builtin contains B $__lembas_marks; or return
    if builtin functions -q __lembas_person_prompt
        # still ours after an empty line; when it is not, somebody has built the prompt anew
        builtin functions fish_prompt | builtin string match -q '*__lembas_person_prompt*'; and return
        builtin functions -e __lembas_person_prompt
    end
    builtin functions -q fish_prompt; or return
    builtin functions -c fish_prompt __lembas_person_prompt
    # one command: the person's prompt must find $status and $pipestatus as they are
    if builtin contains A $__lembas_marks
        function fish_prompt
            builtin printf '\e]133;A\a%s\e]133;B\a' (__lembas_person_prompt | builtin string collect --no-trim-newlines)
        end
    else
        function fish_prompt
            builtin printf '%s\e]133;B\a' (__lembas_person_prompt | builtin string collect --no-trim-newlines)
        end
    end
end

function __lembas_begin --on-event fish_preexec
    # to fish a line of blanks is a command
    set -g __lembas_ran
    builtin string match -qr '\S' -- $argv; and set __lembas_ran yes
    set -q __lembas_ran[1]; and builtin contains C $__lembas_marks; and builtin printf '\e]133;C\a'
    # what runs now finds, and may save, the person's own prompt
    builtin functions -q __lembas_person_prompt; or return
    if builtin functions fish_prompt | builtin string match -q '*__lembas_person_prompt*'
        builtin functions -e fish_prompt
        builtin functions -c __lembas_person_prompt fish_prompt
    end
    builtin functions -e __lembas_person_prompt
end

function __lembas_end --on-event fish_postexec
    set -l code $status
    set -q __lembas_ran[1]; and builtin contains D $__lembas_marks; and builtin printf '\e]133;D;%s\a' $code
end
