// Waiting for another process: looks often, gives up late, says for what.

export async function waitUntil(what: string, condition: () => boolean | Promise<boolean>, timeoutMs = 100_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`Waited ${timeoutMs} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
