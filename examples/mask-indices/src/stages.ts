// The stages of the walk-through, in the order of the story.

import type { Search } from './masked-linear.ts';
import { searchBools, searchFloats, searchOnBackend } from './searches.ts';

export interface Stage {
  readonly number: number;
  readonly title: string;
  readonly search: Search;
}

export const stages: readonly Stage[] = [
  { number: 1, title: 'as first written', search: searchFloats },
  { number: 2, title: 'a narrower mask', search: searchBools },
  { number: 3, title: 'without the copies', search: searchOnBackend },
];
