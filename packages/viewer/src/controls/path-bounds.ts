// The bound of a part of the critical path, in words; one of a newer service keeps its name.

import { pathBoundNames } from '@ranktrace/protocol';

const words: Readonly<Record<string, string>> = pathBoundNames;

export const boundText = (bound: string): string => words[bound] ?? bound;
