// Reports of a running job → incidents.

export { type AlertChange, type EngineAlert, endedHanging } from './alert-change.ts';
export { AlertEngine, type AlertEngineState, type RankFact } from './alert-engine.ts';
export { alertLimits } from './alert-limits.ts';
export { type AlertRules, defaultAlertRules, resolveAlertRules } from './alert-rules.ts';
export { isSameFault, type ReportedFault } from './same-fault.ts';
