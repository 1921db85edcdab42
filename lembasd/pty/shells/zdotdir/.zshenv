# zsh reads this in place of the person's .zshenv, because a terminal of lembasd sets ZDOTDIR to this folder. From here
# on ZDOTDIR is the person's own again, so zsh finds the rest of their files by itself.

builtin source -- "$ZDOTDIR/../integration.zsh"
if [[ -n ${__LEMBAS_ZDOTDIR+set} ]]; then
    builtin export ZDOTDIR=$__LEMBAS_ZDOTDIR
    builtin unset __LEMBAS_ZDOTDIR
else
    builtin unset ZDOTDIR
fi
if [[ -r ${ZDOTDIR-$HOME}/.zshenv ]]; then
    builtin source -- "${ZDOTDIR-$HOME}/.zshenv"
fi
