// Zipkin files as sources of a merge.

export { readZipkin } from './zipkin-source.ts';
export { looksLikeZipkin } from './zipkin-spans.ts';
