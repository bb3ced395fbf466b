// Names that contain a text, by total time, longest first. A collective is found by the name of its kernel, too. Steps have no names of their own here:
// the overview finds them by number.

import { limits, type SearchResult } from '@ranktrace/protocol';
import type { NameTable } from './name-table.ts';

export function searchNames(names: NameTable, text: string): SearchResult {
  const wanted = text.toLowerCase();
  const found: { name: number; count: number; total: number; alias?: string }[] = [];
  for (let name = 0; name < names.length; name++) {
    const count = names.countOf(name);
    if (count <= 0) continue;
    const place = { name, count, total: names.totalOf(name) };
    if (names.text(name).toLowerCase().includes(wanted)) found.push(place);
    else {
      for (const alias of names.aliasesOf(name)) {
        if (!alias.toLowerCase().includes(wanted)) continue;
        found.push({ ...place, alias });
        break;
      }
    }
  }
  found.sort((a, b) => b.total - a.total || b.count - a.count || a.name - b.name);
  const reported = found.slice(0, limits.viewNamesFoundMax);
  return { names: reported, leftOut: found.length - reported.length };
}
