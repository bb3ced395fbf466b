// What a rank tells the command that started it, before it sends anything: one JSON file per life in `RANKTRACE_LAUNCH_DIRECTORY`.

import { z } from 'zod';
import { limits } from './limits.ts';

const text = z.string().max(limits.stringBytesMax);

export const rankNoteSchema = z.strictObject({
  /** The run that it records, whoever named it. */
  run: z.string().min(1).max(limits.runNameCharsMax),
  rank: z.number().int().min(0).max(limits.rankMax),
  /** Where its batches go, without user and password; null: to files in `spool`. */
  url: text.nullable(),
  /** The directory of this life's spool. */
  spool: text,
});

export type RankNote = z.infer<typeof rankNoteSchema>;
