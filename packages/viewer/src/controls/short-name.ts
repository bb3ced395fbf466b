// A name of a line's length, cut in its middle: both of its ends distinguish kernels.

/** At most `most` characters; the last third is the name's end. */
export function shortName(name: string, most = 64): string {
  const plain = name.replace(/^void /, '');
  if (plain.length <= most) return plain;
  const tail = Math.floor(most / 3);
  return `${plain.slice(0, most - tail - 1)}…${plain.slice(-tail)}`;
}
