// Words about a row that stands for several ranks. A rank that was started again is one of them.

import { formatMany, formatRanks } from '../controls/format.ts';
import type { Row } from './rows.ts';

const ranksText = ({ ranks }: Row): string => formatMany(new Set(ranks).size, 'rank');

/** The note in its header. */
export const noteOf = (row: Row): string => (row.kind === 'group' ? ranksText(row) : row.isFolded ? formatRanks(row.ranks, 3) : '');

/** The title of its band. */
export const bandTitle = (row: Row): string => `Step time of ${ranksText(row)}`;
