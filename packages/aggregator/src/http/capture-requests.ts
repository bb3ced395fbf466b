// `POST /v1/capture`: JSON in (`CaptureRequest`), JSON out (`CaptureResult`) once the trace is written, which may take as long as the steps do.
// A client that disconnects earlier aborts the capture.
//
//   200 the result   400 not a request   404 no such run   409 cannot be done; the answer's body is { error, message }

import type { IncomingMessage, ServerResponse } from 'node:http';
import { captureRequestSchema, limits as protocolLimits } from '@ranktrace/protocol';
import type { CaptureSteps } from '../capture/capture-steps.ts';
import type { LiveState } from '../live/live-state.ts';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { Answer } from './http-service.ts';

/** Answers one request; never throws. `response` shows when the client has disconnected. */
export type AnswerCapture = (request: IncomingMessage, response: ServerResponse) => Promise<Answer>;

export function captureRequests(live: LiveState, capture: CaptureSteps): AnswerCapture {
  return async (request, response) => {
    const gone = new AbortController();
    response.once('close', () => gone.abort(new AggregatorError('closed', 'Cannot capture steps: the requester closed the connection')));
    try {
      const { run = onlyRun(live), ...steps } = requestOf(await textOf(request));
      return json(200, await capture(run, steps, gone.signal));
    } catch (error) {
      const code = error instanceof AggregatorError ? error.code : 'failed';
      return json(statuses[code] ?? 409, { error: code, message: messageOf(error) });
    }
  };
}

const statuses: Readonly<Record<string, number>> = { bad_option: 400, store_missing: 404, store_not_a_run: 404, closed: 503, failed: 500 };

const json = (code: number, value: unknown): Answer => ({
  code,
  body: JSON.stringify(value),
  headers: { 'content-type': 'application/json' },
});

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  request.setEncoding('utf8');
  for await (const chunk of request) {
    text += chunk;
    if (text.length > limits.captureRequestBytesMax) throw bad(`it may have ${limits.captureRequestBytesMax} bytes`);
  }
  return text;
}

function requestOf(text: string) {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw bad('it must be JSON');
  }
  const parsed = captureRequestSchema.safeParse(value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw bad(`"${issue?.path.join('.') ?? ''}": ${issue?.message ?? 'not valid'}`);
  }
  const { fromStep = 0, steps = 1, seconds, pull } = parsed.data;
  if ((parsed.data.steps === undefined) === (seconds === undefined)) throw bad('it must have either "steps" or "seconds"');
  if (fromStep + steps - 1 > protocolLimits.capturedStepMax) throw bad(`its last step may be ${protocolLimits.capturedStepMax}`);
  if (pull !== undefined && pull.fromStep > pull.toStep) throw bad('"pull": its steps must not end before they begin');
  return parsed.data;
}

/** The single run that goes on, if there is exactly one; runs whose ranks are all silent, as those of a killed job, count only without any other. */
function onlyRun(live: LiveState): string {
  const runs = live.status(0).runs.filter(({ ranks }) => ranks.some(({ ended }) => !ended));
  const heard = runs.filter(({ ranks }) => ranks.some(({ state }) => state === 'live'));
  const [only, ...others] = (heard.length > 0 ? heard : runs).map(({ run }) => run);
  if (only === undefined) throw new AggregatorError('nothing_captured', 'Cannot capture steps: no run goes on');
  if (others.length === 0) return only;
  throw bad(`"run": it must name one of the runs that go on: ${[only, ...others].slice(0, 20).join(', ')}`);
}

const bad = (why: string): AggregatorError => new AggregatorError('bad_option', `Cannot read the capture request: ${why}`);
