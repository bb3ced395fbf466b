// Text for other programs: to the clipboard, or as a file that the browser saves.

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

export function saveText(name: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv;charset=utf-8' }));
  link.download = name;
  link.click();
  // The browser reads the file after this turn.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
