// The code blocks of a manual page, and the commands in them.
//
//   <!-- file: NAME -->       a mark above a block tells a test how to use it
//   ```js
//   …
//   ```

export interface PageBlock {
  /** From the mark above it; '' without one. */
  readonly kind: string;
  /** The name in the mark; '' without one. */
  readonly name: string;
  readonly language: string;
  readonly code: string;
}

/** All fenced blocks of a page, in its order. */
export function pageBlocks(page: string): PageBlock[] {
  const fence = /^(?:<!-- (\w+)(?:: ([^\n]+))? -->\n)?```(\w*)\n([\s\S]*?\n)```$/gm;
  return [...page.matchAll(fence)].map(([, kind = '', name = '', language = '', code = '']) => ({ kind, name, language, code }));
}

/** The command lines of a block: comments and empty lines left out, continued lines joined. */
export function commandsOf({ code }: PageBlock): string[] {
  return code
    .replaceAll(/\\\n\s*/g, ' ')
    .split('\n')
    .map((line) => line.replace(/(^|\s+)#.*$/, '').trim())
    .filter((line) => line !== '');
}
