// Keys that a terminal in raw mode sends to `ranktrace top`.

// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences of keys begin with Escape.
const key = /\u001b\[[0-?]*[ -/]*[@-~]|\u001bO[\s\S]|\u001b[\s\S]|[\s\S]/g;

/** The keys of one piece of input, each a character or a sequence: a wheel, or a key that is held down, sends several at once. */
export const keysIn = (text: string): readonly string[] => text.match(key) ?? [];
