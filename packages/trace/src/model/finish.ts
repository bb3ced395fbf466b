// Long work is a generator that yields so that its driver may breathe, show progress or stop; `finish` is for callers that just wait.

/** The result of `steps`, all at once. */
export function finish<Result>(steps: Generator<unknown, Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
