// A value of any type, as errors show it.

const charsMax = 200;

/** Short text for an error. Throws nothing. */
export function shownValue(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' && typeof value !== 'string') return String(value);
  try {
    const text = JSON.stringify(value);
    if (text.length <= charsMax) return text;
    return typeof value === 'string' ? `${text.slice(0, charsMax)}…"` : `${text.slice(0, charsMax)}…`;
  } catch {
    // It refers to itself, holds a BigInt, or its own code threw.
    return Array.isArray(value) ? 'a list' : 'an object';
  }
}
