// Keys that are the browser's, whatever part of the page has the focus: Alt and an arrow go back, Ctrl and plus enlarge the page.

export const isBrowsers = ({ ctrlKey, altKey, metaKey }: Pick<KeyboardEvent, 'ctrlKey' | 'altKey' | 'metaKey'>): boolean =>
  ctrlKey || altKey || metaKey;
