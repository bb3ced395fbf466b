// Phases that make a step extraordinary: it takes as long as an evaluation or a checkpoint.

import type { StepTag } from './step-time-finding.ts';

const evalPhase = /^(eval(uat(e|ion|ing))?|valid(at(e|ion|ing))?)([^a-z]|$)/i;
const checkpointPhase = /^((save_?)?checkpoint(ing)?|save([^a-z]|$))/i;

/** The tag of a step with a phase of this name directly below it. */
export function tagOfPhase(name: string): StepTag | undefined {
  if (evalPhase.test(name)) return 'eval';
  return checkpointPhase.test(name) ? 'checkpoint' : undefined;
}
