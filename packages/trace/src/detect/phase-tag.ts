// Phases that make a step no ordinary one: it takes as long as an evaluation or a checkpoint does.

import type { StepTag } from './step-time-finding.ts';

const evalPhase = /^(eval(uat(e|ion|ing))?|valid(at(e|ion|ing))?)([^a-z]|$)/i;
const checkpointPhase = /^((save_?)?checkpoint(ing)?|save([^a-z]|$))/i;

/** The tag of a step that has a phase of this name directly below it. */
export function tagOfPhase(name: string): StepTag | undefined {
  if (evalPhase.test(name)) return 'eval';
  return checkpointPhase.test(name) ? 'checkpoint' : undefined;
}
