// Ctrl-C, as every command treats it: the first asks for a good end, the second ends at once.

const signals = ['SIGINT', 'SIGTERM'] as const;

export interface Interrupt extends Disposable {
  readonly signal: AbortSignal;
  /** Resolves at the first SIGINT or SIGTERM. */
  readonly asked: Promise<void>;
}

/** Listens until disposed. */
export function abortOnInterrupt(): Interrupt {
  const controller = new AbortController();
  const asked = new Promise<void>((resolve) => controller.signal.addEventListener('abort', () => resolve(), { once: true }));
  const listen = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) process.exit(name === 'SIGINT' ? 130 : 143);
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
