// Waits for another process: polls often, gives up late, names the missing condition.

export async function waitUntil(what: string, condition: () => boolean | Promise<boolean>, timeoutMs = 100_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`Waited ${timeoutMs} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
