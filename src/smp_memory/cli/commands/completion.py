"""The command completion: scripts that complete command lines of `smp` in bash, zsh and fish.

Each script calls `smp __complete` (`smp_memory.cli.completion`) with the words up to the cursor.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation

_BASH = """\
# Completion of smp for bash. To use it in every shell: eval "$(smp completion bash)" in ~/.bashrc
_smp_complete() {
    local IFS=$'\\n'
    COMPREPLY=($("$1" __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o bashdefault -o default -F _smp_complete smp
"""

_ZSH = """\
#compdef smp
# Completion of smp for zsh. To use it in every shell, after compinit: eval "$(smp completion zsh)" in ~/.zshrc
_smp() {
    local -a lines values
    local line about
    lines=("${(@f)$(${words[1]} __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    for line in $lines; do
        about=${line#*$'\\t'}
        values+=("${${line%%$'\\t'*}//:/\\\\:}${about:+:$about}")
    done
    if (( ${#values} )); then
        _describe -V 'smp' values
    else
        _files
    fi
}
if [[ "${funcstack[1]}" == "_smp" ]]; then
    _smp "$@"
else
    compdef _smp smp
fi
"""

_FISH = """\
# Completion of smp for fish. To use it in every shell: smp completion fish > ~/.config/fish/completions/smp.fish
function __smp_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found ($words[1] __complete fish $words[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c smp -f -a '(__smp_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion_arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=tuple(SCRIPTS), help="the shell")


def run_completion(call: Invocation) -> None:
    """Print a script that completes commands, options, values, sessions and ids of memories in a shell.

    In bash: eval "$(smp completion bash)" in ~/.bashrc

    In zsh: eval "$(smp completion zsh)" in ~/.zshrc, after compinit

    In fish: smp completion fish > ~/.config/fish/completions/smp.fish

    Ids come from the index as it is; the newest 100 are offered.

    Examples:
      smp completion bash
      smp completion fish
    """
    script = SCRIPTS[call.options.shell]
    call.answer({"shell": call.options.shell, "script": script}, script.splitlines())
