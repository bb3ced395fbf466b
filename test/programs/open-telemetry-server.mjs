// Answers one call of another process as an instrumented server would: reads W3C headers from its parent, calls a third party inside.
//
//   fork('open-telemetry-server.mjs')   ◄── { headers }   ──► 'done'

import { context, propagation, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base';
import { profile } from '@ranktrace/sdk';
import { RanktraceSpanProcessor } from '@ranktrace/sdk/open-telemetry';

propagation.setGlobalPropagator(new W3CTraceContextPropagator());
const tracer = new BasicTracerProvider({ spanProcessors: [new RanktraceSpanProcessor()] }).getTracer('server');
const prof = profile().start();
process.once('message', async ({ headers }) => {
  const caller = propagation.extract(ROOT_CONTEXT, headers);
  const attributes = { 'rpc.service': 'Parameters', 'rpc.method': 'Push', 'client.address': '10.0.0.1' };
  const span = tracer.startSpan('Parameters/Push', { kind: SpanKind.SERVER, attributes }, caller);
  const inside = trace.setSpan(caller, span);
  tracer.startSpan('apply', {}, inside).end();
  span.end();
  tracer.startSpan('never ended', { kind: SpanKind.CLIENT }, context.active());
  await prof.stop();
  process.send('done', () => process.disconnect());
});
process.send('ready');
