// Ctrl-C for every command: the first asks for a good end, the second ends at once.

/** The signals that ask a command to end, and its exit code then. */
export const exitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
const signals = Object.keys(exitCodes) as (keyof typeof exitCodes)[];

/** The end that a signal asked for, before the command was done. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
  readonly exitCode: number;

  constructor(exitCode: number, message = 'Interrupted') {
    super(message);
    this.exitCode = exitCode;
  }
}

export interface Interrupt extends Disposable {
  /** Aborts with an `Interrupted`. */
  readonly signal: AbortSignal;
  /** Resolves at the first SIGINT, SIGTERM or SIGHUP. */
  readonly asked: Promise<void>;
  /** That of a command which the first of these signals ended, 128 + its number; 0 before. */
  readonly exitCode: number;
}

/** Listens until disposed. */
export function abortOnInterrupt(): Interrupt {
  const controller = new AbortController();
  const asked = new Promise<void>((resolve) => controller.signal.addEventListener('abort', () => resolve(), { once: true }));
  let exitCode = 0;
  const listen = (name: NodeJS.Signals): void => {
    const code = exitCodes[name as keyof typeof exitCodes];
    if (controller.signal.aborted) process.exit(code);
    exitCode = code;
    controller.abort(new Interrupted(code));
  };
  for (const name of signals) process.on(name, listen);
  return {
    signal: controller.signal,
    asked,
    get exitCode() {
      return exitCode;
    },
    [Symbol.dispose]: () => {
      for (const name of signals) process.off(name, listen);
    },
  };
}
