zmodload -F zsh/files b:zf_mkdir 2>/dev/null
RINGFENCE_ZSH_FILES=${TMPDIR:-/tmp}/ringfence-zsh-$$
if zf_mkdir -m 700 -- $RINGFENCE_ZSH_FILES 2>/dev/null; then
  export RINGFENCE_ZSH_FILES
  (( ${+ZDOTDIR} )) && export RINGFENCE_ZDOTDIR=$ZDOTDIR
  export ZDOTDIR=$RINGFENCE_ZSH_FILES
  print -r -- '
    if (( ${+RINGFENCE_ZDOTDIR} )); then ZDOTDIR=$RINGFENCE_ZDOTDIR; else unset ZDOTDIR; fi
    [[ -r ${ZDOTDIR:-$HOME}/.zshenv ]] && source ${ZDOTDIR:-$HOME}/.zshenv
    if (( ${+ZDOTDIR} )); then RINGFENCE_ZDOTDIR=$ZDOTDIR; else unset RINGFENCE_ZDOTDIR; fi
    ZDOTDIR=$RINGFENCE_ZSH_FILES' >$ZDOTDIR/.zshenv
  print -r -- '
    zmodload -F zsh/files b:zf_rm && zf_rm -rf -- $RINGFENCE_ZSH_FILES
    if (( ${+RINGFENCE_ZDOTDIR} )); then ZDOTDIR=$RINGFENCE_ZDOTDIR; else unset ZDOTDIR; fi
    unset RINGFENCE_ZSH_FILES RINGFENCE_ZDOTDIR
    [[ -r ${ZDOTDIR:-$HOME}/.zshrc ]] && source ${ZDOTDIR:-$HOME}/.zshrc
    ringfence_mark() {
      [[ $PROMPT == *"(ringfence) "* ]] || PROMPT="(ringfence) $PROMPT"
      precmd_functions=(${precmd_functions:#ringfence_mark} ringfence_mark)
    }
    typeset -ga precmd_functions
    precmd_functions+=(ringfence_mark)' >$ZDOTDIR/.zshrc
else
  export RPS1='(ringfence)'
fi
exec -- $0 -i
