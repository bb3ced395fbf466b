// Words of commands that people copy from our output.

/** A path or name as one word of a POSIX shell: `'out dir/night'`, or as it is where that is one. */
export const shellWord = (text: string): string => (/^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
