import { once } from 'node:events';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { WebSocketIngest } from '../ingest/web-socket-ingest.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { ExampleRuns } from '../testing/example-runs.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { waitUntil } from '../testing/wait-until.ts';
import { ViewError } from '../view/view-error.ts';
import { HttpService, type HttpServiceOptions } from './http-service.ts';

interface Answer {
  readonly code: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Sends the path as it is: `fetch` would tidy it up. */
async function get(service: HttpService, path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
  const { hostname, port } = new URL(service.address);
  const sent = request({ host: hostname, port, path, headers, method, agent: false });
  sent.end();
  const [response] = await once(sent, 'response');
  return { code: response.statusCode, headers: response.headers, body: await text(response) };
}

/** Whether a page may connect: `open`, or the code it is refused with. */
async function connect(service: HttpService, path: string, headers: Record<string, string> = {}): Promise<string> {
  const socket = new WebSocket(`${service.address.replace('http', 'ws')}${path}`, { headers });
  const answer = await new Promise<string>((resolve) => {
    socket.once('open', () => resolve('open'));
    socket.once('error', ({ message }) => resolve(message.match(/\d{3}/)?.[0] ?? message));
  });
  socket.terminate();
  return answer;
}

const markup = '<!doctype html><title>ranktrace</title>';

/** A page as vite builds it, beside a file that must stay private. */
function writePage(path: string): string {
  const page = join(path, 'page');
  mkdirSync(join(page, 'assets'), { recursive: true });
  writeFileSync(join(page, 'index.html'), markup);
  writeFileSync(join(page, 'icon.svg'), '<svg/>');
  writeFileSync(join(page, 'assets/index-B1x_9-aZ.js'), 'draw();');
  writeFileSync(join(page, 'assets/plain.css'), 'p{}');
  writeFileSync(join(path, 'secret.txt'), 'secret');
  symlinkSync(join(path, 'secret.txt'), join(page, 'link.txt'));
  return page;
}

async function withService(options: Partial<HttpServiceOptions>, use: (service: HttpService) => Promise<void>): Promise<void> {
  using directory = temporaryDirectory();
  const service = await HttpService.listen({ listen: {}, page: writePage(directory.path), onNotice: () => undefined, ...options });
  try {
    await use(service);
  } finally {
    await service.close();
  }
}

const cookieOf = ({ headers }: Answer): string => headers['set-cookie']?.[0]?.split(';', 1)[0] ?? '';

test('a request that offers HTTP/2, as `curl --http2` and Java send it, is answered in HTTP/1.1, and its connection kept', async () => {
  const bodies: string[] = [];
  const capture: HttpServiceOptions['capture'] = async (sent) => {
    bodies.push(await text(sent));
    return { body: 'captured' };
  };
  await withService({ capture }, async (service) => {
    const { hostname, port } = new URL(service.address);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ports = new Set<number>();
    const long = 'x'.repeat(300_000);
    for (const [method, path, body, answered] of [
      ['GET', '/', '', markup],
      ['POST', '/v1/capture', 'a body', 'captured'],
      ['POST', '/v1/capture', long, 'captured'],
      ['GET', '/nothing', '', 'not found\n'],
    ] as const) {
      const headers = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABk' };
      const sent = request({ host: hostname, port, path, method, headers, agent });
      sent.end(body);
      const [response] = await once(sent, 'response');
      ports.add(sent.socket?.localPort ?? 0);
      expect([path, await text(response)]).toEqual([path, answered]);
    }
    expect(ports.size).toBe(1);
    expect(bodies).toEqual(['a body', long]);
    expect(await connect(service, '/v1/ingest')).toBe('404');
  });
});

test('serves the page: types, and what a browser may keep', () =>
  withService({}, async (service) => {
    for (const [path, type, cacheControl, body] of [
      ['/', 'text/html; charset=utf-8', 'no-cache', markup],
      ['/?run=demo&from=1', 'text/html; charset=utf-8', 'no-cache', markup],
      ['/index.html', 'text/html; charset=utf-8', 'no-cache', markup],
      ['/icon.svg', 'image/svg+xml', 'no-cache', '<svg/>'],
      ['/assets/index-B1x_9-aZ.js', 'text/javascript; charset=utf-8', 'public, max-age=31536000, immutable', 'draw();'],
      ['/assets/plain.css', 'text/css; charset=utf-8', 'no-cache', 'p{}'],
    ] as const) {
      const answer = await get(service, path);
      expect([answer.code, answer.headers['content-type'], answer.headers['cache-control'], answer.body]).toEqual([
        200,
        type,
        cacheControl,
        body,
      ]);
    }
    expect((await get(service, '/', {}, 'POST')).code).toBe(405);
    expect((await get(service, '/healthz')).body).toBe('ok\n');
  }));

test('HEAD answers as GET does, without the body', () =>
  withService({ status: () => ({ type: 'status', runs: [], quarantined: 0, expired: 0 }) }, async (service) => {
    for (const path of ['/healthz', '/', '/status', '/assets/plain.css', '/nothing']) {
      const [full, head] = [await get(service, path), await get(service, path, {}, 'HEAD')];
      const reported = ({ code, headers }: Answer): unknown[] => [
        code,
        headers['content-type'],
        headers['cache-control'],
        headers['content-length'],
      ];
      expect(reported(head)).toEqual(reported(full));
      expect(head.headers['content-length']).toBe(`${full.body.length}`);
      expect(head.body).toBe('');
    }
    expect((await get(service, '/healthz', {}, 'PUT')).headers.allow).toBe('GET, HEAD');
  }));

test('HEAD opens nothing that GET does not', () =>
  withService({ token: 'secret' }, async (service) => {
    expect((await get(service, '/', {}, 'HEAD')).code).toBe(401);
    expect((await get(service, '/', { authorization: 'Bearer secret' }, 'HEAD')).code).toBe(200);
  }));

test('no path leads out of the page', () =>
  withService({}, async (service) => {
    for (const path of [
      '/../secret.txt',
      '/assets/../../secret.txt',
      '/%2e%2e/secret.txt',
      '/..%2fsecret.txt',
      '/assets/..%5c..%5csecret.txt',
      '//secret.txt',
      '/link.txt',
      '/assets',
      '/assets/',
      '/index.html/',
      '/index.html%00',
      '/__proto__',
      '/constructor',
      'http://127.0.0.1/index.html',
    ]) {
      expect([path, (await get(service, path)).code]).toEqual([path, 404]);
    }
  }));

test('every answer keeps the page on this port, unframed and untold', () =>
  withService({ token: 'secret' }, async (service) => {
    const bearer = { authorization: 'Bearer secret' };
    for (const [path, headers, method, code] of [
      ['/', bearer, 'GET', 200],
      ['/assets/plain.css', bearer, 'GET', 200],
      ['/nowhere', bearer, 'GET', 404],
      ['//', bearer, 'GET', 404],
      ['//:x?run=a', bearer, 'GET', 404],
      ['/', {}, 'GET', 401],
      ['/?token=secret', {}, 'GET', 303],
      ['/healthz', {}, 'GET', 200],
      ['/', {}, 'DELETE', 405],
    ] as const) {
      const answer = await get(service, path, headers, method);
      expect(answer.code).toBe(code);
      expect(answer.headers).toMatchObject({
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      });
    }
  }));

test('a token in the address becomes a cookie, and leaves the address', () =>
  withService({ token: 'sec ret&' }, async (service) => {
    const refused = await get(service, '/');
    expect(refused.code).toBe(401);
    expect(refused.headers['www-authenticate']).toBe('Bearer');
    expect(refused.body).toBe('wrong or missing token: open /?token=TOKEN here once, or send the header "Authorization: Bearer TOKEN"\n');
    const entry = await get(service, '/?run=a%20b&token=sec%20ret%26&from=5');
    expect([entry.code, entry.headers.location]).toEqual([303, '/?run=a+b&from=5']);
    const { port } = new URL(service.address);
    expect(entry.headers['set-cookie']).toEqual([
      expect.stringMatching(new RegExp(`^ranktrace_${port}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Lax$`)),
    ]);
    const cookie = cookieOf(entry);
    expect(cookie).not.toContain('sec');
    expect((await get(service, '/', { cookie })).body).toBe(markup);
    expect((await get(service, '/', { cookie: `other=1; ${cookie}; more=2` })).code).toBe(200);
    expect((await get(service, entry.headers.location ?? '', { cookie })).code).toBe(200);
    expect((await get(service, '/?token=sec%20ret%26')).headers.location).toBe('/');
  }));

test.for([
  ['a wrong token', '/?token=secre', {}],
  ['an empty token', '/?token=', {}],
  ['the token on another path', '/status?token=secret', {}],
  ['the token on a path that looks like another host', '//evil.example/?token=secret', {}],
  ['a foreign page that knows the token', '/?token=secret', { origin: 'http://evil.example' }],
  ['the token as a cookie', '/', { cookie: 'ranktrace=secret' }],
  ['no bearer', '/', { authorization: 'secret' }],
] as const)('comes in by nothing but the right token: %s', ([, path, headers]) =>
  withService({ token: 'secret' }, async (service) => {
    const answer = await get(service, path, headers);
    expect([401, 403]).toContain(answer.code);
    expect(answer.headers['set-cookie']).toBeUndefined();
  }),
);

test('a cookie is of one token and one port', async () => {
  let cookie = '';
  let digest = '';
  await withService({ token: 'secret' }, async (service) => {
    cookie = cookieOf(await get(service, '/?token=secret'));
    digest = cookie.split('=')[1] ?? '';
    for (const wrong of [`${cookie}x`, cookie.slice(0, -1), `${cookie.split('=')[0]}=secret`, `x${cookie}`]) {
      expect((await get(service, '/', { cookie: wrong })).code).toBe(401);
    }
  });
  await withService({ token: 'another' }, async (service) => {
    const { port } = new URL(service.address);
    expect((await get(service, '/', { cookie: `ranktrace_${port}=${digest}` })).code).toBe(401);
  });
  // The same token after a restart: the cookie still holds, under the name of the port.
  await withService({ token: 'secret' }, async (service) => {
    const { port } = new URL(service.address);
    expect((await get(service, '/', { cookie: `ranktrace_${port}=${digest}` })).code).toBe(200);
  });
});

test('without a token, a name that is pointed here is refused', () =>
  withService({ view: new ExampleRuns() }, async (service) => {
    for (const host of ['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example']) {
      expect((await get(service, '/', { host })).code).toBe(403);
      expect(await connect(service, '/v1/view', { host })).toBe('403');
    }
    for (const host of ['localhost:80', '127.0.0.1', '[::1]:7']) expect((await get(service, '/', { host })).code).toBe(200);
  }));

test('pages of this port may connect, others may not', () =>
  withService({ view: new ExampleRuns() }, async (service) => {
    const { host, port } = new URL(service.address);
    for (const origin of [`http://${host}`, `https://${host}`]) expect(await connect(service, '/v1/view', { origin })).toBe('open');
    expect(await connect(service, '/v1/view')).toBe('open');
    for (const origin of [
      'http://evil.example',
      `http://localhost:${port}`,
      'http://127.0.0.1:1',
      `http://${host}.evil.example`,
      'null',
      '',
    ]) {
      expect([origin, await connect(service, '/v1/view', { origin })]).toEqual([origin, '403']);
      expect([origin, (await get(service, '/', { origin })).code]).toEqual([origin, 403]);
    }
    expect(await connect(service, '/v1/ingest')).toBe('404');
    expect(await connect(service, '/v1/elsewhere')).toBe('404');
  }));

test('with a token, pages connect by cookie or bearer', () =>
  withService({ view: new ExampleRuns(), token: 'secret' }, async (service) => {
    const cookie = cookieOf(await get(service, '/?token=secret'));
    const origin = `http://${new URL(service.address).host}`;
    expect(await connect(service, '/v1/view', { cookie, origin })).toBe('open');
    expect(await connect(service, '/v1/view', { authorization: 'Bearer secret' })).toBe('open');
    expect(await connect(service, '/v1/view', { origin })).toBe('401');
    expect(await connect(service, '/v1/view?token=secret', { origin })).toBe('401');
    expect(await connect(service, '/v1/view', { cookie, origin: 'http://evil.example' })).toBe('403');
    // Any host name of the proxy in front is fine: the token decides.
    expect(await connect(service, '/v1/view', { authorization: 'Bearer secret', host: 'trace.example' })).toBe('open');
  }));

describe('downloads', () => {
  const oneMs = '/v1/trace?run=demo&from=500500&until=502100';

  test('a window of a run comes as a trace of what overlaps it, and the whole run without one', async () => {
    const view = new ExampleRuns('demo');
    view.add('demo').addSpans(1000);
    await withService({ view }, async (service) => {
      const { code, headers, body } = await get(service, `${oneMs}&format=json`);
      expect([code, headers['content-type'], headers['cache-control']]).toEqual([200, 'application/octet-stream', 'no-store']);
      expect(headers['content-disposition']).toBe('attachment; filename="demo-1ms-1ms.json"');
      expect(headers['content-security-policy']).toContain("default-src 'none'");
      const spans = (text: string): string[] =>
        JSON.parse(text).traceEvents.flatMap(({ ph, name, ts }: Record<string, unknown>) => (ph === 'X' ? [`${name} ${ts}`] : []));
      // Span 500 runs until 500.9 µs.
      expect(spans(body)).toEqual(['even 500', 'odd 501', 'even 502']);
      expect(spans((await get(service, '/v1/trace?run=demo&format=json')).body)).toHaveLength(1000);
      expect(spans((await get(service, '/v1/trace?run=demo&format=json&ranks=1,2')).body)).toEqual([]);
      const head = await get(service, oneMs, {}, 'HEAD');
      expect([head.code, head.body, head.headers['content-disposition']]).toEqual([200, '', 'attachment; filename="demo-1ms-1ms.pftrace"']);
      expect(view.runs.get('demo')?.views).toBe(0);
    });
  });

  test('what is no request for a trace is refused with its reason', () =>
    withService({ view: new ExampleRuns('demo') }, async (service) => {
      for (const [query, code, reason] of [
        ['', 400, '"run" must be the name of a run'],
        ['run=other', 404, 'Cannot open run "other"'],
        ['run=demo&format=exe', 400, '"format" must be one of pftrace, json'],
        ['run=demo&format=toString', 400, '"format" must be one of pftrace, json'],
        ['run=demo&from=soon', 400, '"from" and "until" must be times'],
        ['run=demo&from=5&until=5', 400, '"until" must be after "from"'],
        ['run=demo&ranks=-1', 400, '"ranks" must be numbers'],
        ['run=demo&run=demo', 400, '"run" is unknown or given twice'],
        ['run=demo&path=/etc/passwd', 400, '"path" is unknown'],
      ] as const) {
        const answer = await get(service, `/v1/trace?${query}`);
        expect([query, answer.code]).toEqual([query, code]);
        expect(answer.body).toContain(reason);
      }
    }));

  test('readers get them, and nobody else', () =>
    withService({ view: new ExampleRuns('demo'), token: { read: 'read-me', rank: 'write-me' } }, async (service) => {
      const cookie = cookieOf(await get(service, '/?token=read-me'));
      expect((await get(service, oneMs, { cookie })).code).toBe(200);
      expect((await get(service, oneMs, { authorization: 'Bearer read-me' })).code).toBe(200);
      expect((await get(service, oneMs)).code).toBe(401);
      expect((await get(service, `${oneMs}&token=read-me`)).code).toBe(401);
      expect((await get(service, oneMs, { authorization: 'Bearer write-me' })).code).toBe(403);
      expect((await get(service, oneMs, { cookie, origin: 'http://evil.example' })).code).toBe(403);
      expect((await get(service, '/v1/captures/demo/a.pftrace')).code).toBe(401);
    }));

  test('a merge that does not begin is refused with its reason, and the run is released', async () => {
    const view = new ExampleRuns('demo');
    const demo = view.add('demo');
    // biome-ignore lint/correctness/useYield: it ends at once.
    demo.merge = function* () {
      throw new ViewError('too_many', '4 comparisons and downloads are under way already');
    };
    await withService({ view }, async (service) => {
      const { code, body } = await get(service, oneMs);
      expect([code, body, demo.views]).toEqual([503, '4 comparisons and downloads are under way already\n', 0]);
    });
  });

  test('a reader that leaves ends the merge', async () => {
    const view = new ExampleRuns('demo');
    const demo = view.add('demo');
    demo.addSpans(2_000_000);
    await withService({ view }, async (service) => {
      const { hostname, port } = new URL(service.address);
      const sent = request({ host: hostname, port, path: '/v1/trace?run=demo&format=json', agent: false });
      sent.on('error', () => undefined);
      sent.end();
      const [response] = await once(sent, 'response');
      expect(demo.views).toBe(1);
      response.destroy();
      await waitUntil('the run is released', () => demo.views === 0);
    });
  });

  test('captures of a run, by the names in its list alone', async () => {
    using directory = temporaryDirectory();
    const path = join(directory.path, 'steps-3-5.pftrace');
    writeFileSync(path, 'a trace');
    writeFileSync(join(directory.path, 'secret.pftrace'), 'secret');
    const view = new ExampleRuns('demo');
    view.captureFiles = [{ name: 'steps-3-5.pftrace', path, bytes: 7 }];
    await withService({ view }, async (service) => {
      const { code, headers, body } = await get(service, '/v1/captures/demo/steps-3-5.pftrace');
      expect([code, headers['content-length'], body]).toEqual([200, '7', 'a trace']);
      expect(headers['content-disposition']).toBe('attachment; filename="steps-3-5.pftrace"');
      for (const other of [
        'demo/secret.pftrace',
        'other/steps-3-5.pftrace',
        'demo/../secret.pftrace',
        'demo/%2e%2e%2fsecret.pftrace',
        'demo/',
      ])
        expect((await get(service, `/v1/captures/${other}`)).code, other).toBe(404);
    });
  });
});

const roles = { rank: 'write-me', read: 'read-me', capture: 'take-me', all: 'master' };

/** The status codes that each token gets: from a page, its status, a capture, and the ranks' entrance. */
async function opens(service: HttpService, token: string | undefined): Promise<string> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const codes = [
    (await get(service, '/', headers)).code,
    (await get(service, '/status', headers)).code,
    (await get(service, '/v1/capture', headers, 'POST')).code,
    await connect(service, '/v1/view', headers),
    await connect(service, '/v1/ingest', headers),
  ];
  return codes.join(' ');
}

const parts = {
  view: new ExampleRuns(),
  status: () => ({ type: 'status' as const, runs: [], quarantined: 0, expired: 0 }),
  capture: async () => ({ body: 'captured' }),
};
const withIngest = (): Partial<HttpServiceOptions> => ({
  ...parts,
  ingest: new WebSocketIngest({ ingest: () => ({ result: 'stored', batch: '' }), onNotice: () => undefined }),
});

test('each token opens what it is for, and nothing else', () =>
  withService({ ...withIngest(), token: roles }, async (service) => {
    expect({
      none: await opens(service, undefined),
      wrong: await opens(service, 'guess'),
      rank: await opens(service, roles.rank),
      read: await opens(service, roles.read),
      capture: await opens(service, roles.capture),
      all: await opens(service, roles.all),
    }).toEqual({
      none: '401 401 401 401 401',
      wrong: '401 401 401 401 401',
      rank: '403 403 403 403 open',
      read: '200 200 403 open 403',
      capture: '200 200 200 open 403',
      all: '200 200 200 open open',
    });
    const refused = await get(service, '/v1/capture', { authorization: 'Bearer read-me' }, 'POST');
    expect(refused.body).toBe('this token is for reading alone: capturing needs that of RANKTRACE_CAPTURE_TOKEN or RANKTRACE_TOKEN\n');
    // A rank's token makes no cookie; a reader's cookie does not capture.
    expect((await get(service, '/?token=write-me')).headers['set-cookie']).toBeUndefined();
    const cookie = cookieOf(await get(service, '/?token=read-me'));
    expect([(await get(service, '/', { cookie })).code, (await get(service, '/v1/capture', { cookie }, 'POST')).code]).toEqual([200, 403]);
  }));

test('with one token, what has none is closed and says which is missing', () =>
  withService({ ...withIngest(), token: { rank: 'write-me' } }, async (service) => {
    expect(await opens(service, 'write-me')).toBe('403 403 403 403 open');
    expect((await get(service, '/')).body).toBe(
      'this service has no token for reading: start it with RANKTRACE_READ_TOKEN or RANKTRACE_TOKEN\n',
    );
  }));

test('other hosts need a token to be set, and the message says how', async () => {
  for (const token of [undefined, '', {}, { all: '' }]) {
    const listening = HttpService.listen({ listen: { host: '0.0.0.0' }, token, onNotice: () => undefined });
    await expect(listening).rejects.toMatchObject({
      code: 'token_required',
      message: 'Cannot listen on 0.0.0.0:0: other hosts can reach it, so it needs a token (--token-file FILE, or variable RANKTRACE_TOKEN)',
    });
  }
});

test('so many pages may be connected, and no more', () =>
  withService({ view: new ExampleRuns() }, async (service) => {
    const sockets = Array.from({ length: limits.viewPagesMax }, () => new WebSocket(`${service.address.replace('http', 'ws')}/v1/view`));
    await Promise.all(sockets.map((socket) => once(socket, 'open')));
    expect(await connect(service, '/v1/view')).toBe('503');
    const [first] = sockets;
    first?.close();
    if (first !== undefined) await once(first, 'close');
    await waitUntil('there is room again', async () => (await connect(service, '/v1/view')) === 'open');
    expect((await get(service, '/healthz')).code).toBe(200);
    for (const socket of sockets) socket.terminate();
  }));

test('says clearly what it has not', async () => {
  using directory = temporaryDirectory();
  const listening = HttpService.listen({ listen: {}, page: directory.path, onNotice: () => undefined });
  await expect(listening).rejects.toMatchObject({
    code: 'bad_option',
    message: `Cannot serve the page of "${directory.path}": it has no index.html`,
  });
  const missing = HttpService.listen({ listen: {}, page: join(directory.path, 'none'), onNotice: () => undefined });
  await expect(missing).rejects.toMatchObject({ code: 'bad_option', message: expect.stringContaining('ENOENT') });
  const service = await HttpService.listen({ listen: {}, onNotice: () => undefined });
  expect(await get(service, '/')).toMatchObject({ code: 404, body: 'not found: this service has no page\n' });
  expect((await get(service, '/status')).code).toBe(404);
  await service.close();
});
