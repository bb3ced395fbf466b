// Publishes each alert as JSON on a NATS subject, through a function from jetstream-ingest.ts, the file that knows NATS.

import { messageOf } from '../model/errors.ts';
import { type AlertOutput, sent } from './alert-output.ts';

/** Publishes text on a subject; resolves when the server has it, rejects when it is out of reach. */
export type NatsPublish = (subject: string, text: string) => Promise<void>;

/** An output to `subject`, in which `{run}` stands for the run's name (which is a token of a subject by its own grammar). */
export function natsOutput(subject: string, publish: NatsPublish): AlertOutput {
  return {
    async send(alert) {
      try {
        await publish(subject.replaceAll('{run}', alert.run), JSON.stringify(alert));
        return sent;
      } catch (error) {
        return { ok: false, reason: messageOf(error), retry: true };
      }
    },
  };
}
