// The conditions that determine a step's length, as one small number.

/** A number for the conditions that determine a step's length (batch size, sequence length, world size, build, …): equal texts, equal numbers. */
export function contextKeyOf(text: string): number {
  // FNV-1a over UTF-16 units (Fowler, Noll, Vo), kept to 31 bits: a small integer in every engine. 0 is kept for "none".
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return ((hash >>> 1) % 0x3fffffff) + 1;
}
