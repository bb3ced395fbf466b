// Long work is a generator that yields so that whoever drives it may breathe, show progress or stop; this is for those who wait for it.

/** The result of `steps`, all at once. */
export function finish<Result>(steps: Generator<unknown, Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
