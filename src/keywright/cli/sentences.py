"""The sentence of the terminal about a command that failed: what is wrong, and what to do."""

from keywright.core.errors import KeywrightError


def sentence(problem: KeywrightError | OSError) -> str:
    """The sentence about this problem."""
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename else ""
        return f"{where}{problem.strerror or problem}."
    said = problem.say(problem.hint or problem.sentence)
    return said if problem.hint else said[:1].lower() + said[1:]
