// Alerts as lines of the service's own log: first the incident, then the other facts in the order of alert-text.ts.

import { type AlertOutput, sent } from './alert-output.ts';
import { alertFacts, alertLine } from './alert-text.ts';

/** An output to `log`, called once per line. */
export function logOutput(log: (line: string) => void): AlertOutput {
  return {
    async send(alert) {
      log(alertLine(alert));
      for (const [name, text] of alertFacts(alert)) log(`  ${name}: ${text}`);
      if (alert.link !== null) log(`  timeline: ${alert.link}`);
      return sent;
    },
  };
}
