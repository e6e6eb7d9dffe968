"""The layout of mlx_lm.generate."""

from mlxctl.events import Done, Timing, Token
from mlxctl.output import Quiet

_RULE = "=" * 10


class Writer(Quiet):
    """A rule, the answer, a rule, the figures."""

    _shown = False

    def start(self) -> None:
        self.out.write(_RULE + "\n")

    def token(self, token: Token) -> None:
        if token.raw:
            self._shown = True
            self.out.write(token.raw)

    def done(self, done: Done) -> None:
        figures = _figures(done.timing) if self._shown else "No text generated for this prompt"
        self.out.write(f"\n{_RULE}\n{figures}\n")


def _figures(timing: Timing) -> str:
    # The layout has a number everywhere; a rate that cannot be known is shown as 0.
    prompt = f"Prompt: {timing.prefill_tokens} tokens, {timing.prompt_tps or 0:.3f} tokens-per-sec"
    rate = f"{timing.generation_tps or 0:.3f} tokens-per-sec"
    return "\n".join(
        [
            prompt,
            f"Generation: {timing.generation_tokens} tokens, {rate}",
            f"Peak memory: {timing.peak_memory_gb or 0:.3f} GB",
        ]
    )
