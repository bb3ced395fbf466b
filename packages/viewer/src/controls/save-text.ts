// Text for other programs, to the clipboard or as a file, and other files that the browser saves.

/** Rejects where the browser forbids it. */
export async function copyText(text: string): Promise<void> {
  // A page that comes neither from this host nor by https has no clipboard; the old way still works there.
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const field = document.createElement('textarea');
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand('copy');
  field.remove();
  if (!isCopied) throw new Error('This browser forbids copying');
}

export const saveText = (name: string, text: string): void => saveBlob(name, new Blob([text], { type: 'text/csv;charset=utf-8' }));

export function saveBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  saveLink(url, name);
  // The browser reads the file after this turn.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Has the browser download an address; without a name, under the one that its answer gives. */
export function saveLink(url: string, name: string): void {
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
}
