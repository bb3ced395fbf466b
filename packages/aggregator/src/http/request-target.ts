// The target of a request, whatever a client sends: a URL of it cannot always be made, as of "//".

import type { IncomingMessage } from 'node:http';

/** The target up to its first "?". */
export const pathOf = ({ url = '' }: IncomingMessage): string => url.split('?', 1)[0] ?? '';

/** The parameters after that. */
export const queryOf = (request: IncomingMessage): URLSearchParams => new URLSearchParams(request.url?.slice(pathOf(request).length));
