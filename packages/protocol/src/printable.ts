// Makes foreign text safe to show: on a terminal, in a log, on a page. The name of a span, a host or a file can neither move the cursor, nor
// end the line, nor hide or reverse the text beside it.
//
// Invariant: the result holds no control, direction or invisible mark and no lone surrogate; each becomes an escape such as `\u202e`, so two
// different names look different. Safe text stays unchanged.

/** DEL and C1; Arabic letter mark; zero-width and direction marks; line and paragraph separators; embeddings, overrides, isolates; BOM. */
const marks = '\\u007f-\\u009f\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb';
const loneSurrogates = '[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]';
const inLine = new RegExp(`[\\u0000-\\u001f${marks}]|${loneSurrogates}`, 'g');
const inText = new RegExp(`[\\u0000-\\u0009\\u000b-\\u001f${marks}]|${loneSurrogates}`, 'g');
const inJson = new RegExp(`[${marks}]`, 'g');

const escaped = (mark: string): string => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`;

/**
 * `text` as one line, with every unsafe character as an escape.
 *
 * @example printable('a\u001b[2Jb\n') // 'a\\u001b[2Jb\\u000a'
 */
export const printable = (text: string): string => text.replace(inLine, escaped);

/** For lines of our own layout: keeps line feeds. Callers make names `printable` first, for a line feed in one would look like ours. */
export const printableLines = (text: string): string => text.replace(inText, escaped);

/** JSON of `data` with safe names unchanged: unsafe characters become escapes, which any reader decodes. */
export const printableJson = (data: unknown): string => JSON.stringify(data).replace(inJson, escaped);
