// Names for lanes and lists, shorter than in the recording: hashes keep their ends, C++ and Python boilerplate goes. Details and tooltips show whole
// names.

const loaderName = /^enumerate\((Data(?:Loader|Pipe))\)#/;
/** Lightning's profiler names its spans by the kind of what it calls. */
const lightningTags = /^\[pl\]\[(?:profile|module)\](?:\[(\w+)\](?=\.)|\[\w+\])?/;
/** Words of letters and digits that nobody reads, such as the hash of a compiled graph. */
const hashPattern = /\b(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{24,}\b/g;
const hashHead = 4;
const hashTail = 5;
const ellipsis = '…';

/**
 * @example shortName('## Call CompiledFxGraph f7p6xk…cn5jf ##') // '## Call CompiledFxGraph f7p6…cn5jf ##'
 * @example shortName('enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__') // 'DataLoader'
 * @example shortName('[pl][profile][Strategy]DDPStrategy.backward') // 'DDPStrategy.backward'
 * @example shortName('void at::native::(anonymous namespace)::reduce<4>(int)') // 'at::native::reduce<4>(int)'
 */
export function shortName(name: string): string {
  const [, loader] = loaderName.exec(name) ?? [];
  if (loader !== undefined) return loader;
  return name
    .replace(lightningTags, '$1')
    .replace(/^void /, '')
    .replaceAll('(anonymous namespace)::', '')
    .replace(hashPattern, (hash) => `${hash.slice(0, hashHead)}${ellipsis}${hash.slice(-hashTail)}`);
}

/** The first of the name's characters kept where it is cut in the middle: the beginning says more. */
const headPart = 0.6;

/** A text of at most `chars` characters, cut in the middle. */
export function cutMiddle(text: string, chars: number): string {
  const all = [...text];
  if (all.length <= chars) return text;
  const head = Math.max(1, Math.round((chars - 1) * headPart));
  return `${all.slice(0, head).join('')}${ellipsis}${all.slice(all.length - (chars - 1 - head)).join('')}`;
}

/** The name on a line of its own: short, and at most `chars` characters. */
export const lineName = (name: string, chars = 64): string => cutMiddle(shortName(name), chars);
