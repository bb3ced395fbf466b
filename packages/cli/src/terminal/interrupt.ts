// Ctrl-C for every command: the first asks for a good end, the second ends at once.

const exitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
const signals = Object.keys(exitCodes) as (keyof typeof exitCodes)[];

export interface Interrupt extends Disposable {
  readonly signal: AbortSignal;
  /** Resolves at the first SIGINT, SIGTERM or SIGHUP. */
  readonly asked: Promise<void>;
}

/** Listens until disposed. */
export function abortOnInterrupt(): Interrupt {
  const controller = new AbortController();
  const asked = new Promise<void>((resolve) => controller.signal.addEventListener('abort', () => resolve(), { once: true }));
  const listen = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) process.exit(exitCodes[name as keyof typeof exitCodes]);
    controller.abort();
  };
  for (const name of signals) process.on(name, listen);
  return {
    signal: controller.signal,
    asked,
    [Symbol.dispose]: () => {
      for (const name of signals) process.off(name, listen);
    },
  };
}
