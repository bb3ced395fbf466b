import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { makeIssuer, type TestCertificate } from '../testing/certificates.ts';
import { ExampleRuns } from '../testing/example-runs.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { waitUntil } from '../testing/wait-until.ts';
import { HttpService } from './http-service.ts';

const listen = (tls: TestCertificate, onNotice: (notice: string) => void = () => undefined): Promise<HttpService> =>
  HttpService.listen({ listen: { tls }, token: 'secret', view: new ExampleRuns(), onNotice });

/** The name of the certificate that a new connection is shown. */
function shownName(port: number, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket: TLSSocket = connect({ host: '127.0.0.1', port, ca: readFileSync(ca) }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

test('speaks https and wss, with a cookie that leaves by no other way, and a new certificate when its files change', async () => {
  using directory = temporaryDirectory();
  const { ca, certificate } = makeIssuer(directory.path);
  const [first, second, other] = [certificate('first'), certificate('second'), certificate('other')];
  const files = { cert: join(directory.path, 'live.pem'), key: join(directory.path, 'live.key') };
  const install = ({ cert, key }: TestCertificate): void => {
    copyFileSync(key, files.key);
    copyFileSync(cert, files.cert);
  };
  install(first);
  const notices: string[] = [];
  const service = await listen(files, (notice) => notices.push(notice));
  try {
    expect(service.address).toMatch(/^https:/);
    const port = Number(new URL(service.address).port);
    const cookie = await new Promise<string>((resolve, reject) => {
      const sent = request(`${service.address}/?token=secret`, { ca: readFileSync(ca), agent: false }, (response) => {
        resolve(response.headers['set-cookie']?.[0] ?? '');
        response.resume();
      });
      sent.once('error', reject).end();
    });
    expect(cookie).toMatch(/; SameSite=Lax; Secure$/);
    const offer = { connection: 'Upgrade', upgrade: 'h2c' };
    const offered = await new Promise((resolve, reject) => {
      const sent = request(`${service.address}/healthz`, { ca: readFileSync(ca), agent: false, headers: offer }, (response) => {
        resolve(response.statusCode);
        response.resume();
      });
      sent.once('error', reject).end();
    });
    expect(offered).toBe(200);
    const socket = new WebSocket(`${service.address.replace('http', 'ws')}/v1/view`, {
      ca: readFileSync(ca),
      headers: { authorization: 'Bearer secret' },
    });
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    await expect(fetch(`${service.address.replace('https', 'http')}/healthz`)).rejects.toThrow();

    // Half of a new pair is no pair: the old one stays.
    copyFileSync(other.cert, files.cert);
    await waitUntil('the half is seen', () => notices.some((notice) => notice.startsWith('the certificate stays as it was: ')));
    expect(await shownName(port, ca)).toBe('first');
    install(second);
    await waitUntil('the new one is shown', async () => (await shownName(port, ca)) === 'second');
    expect(notices.at(-1)).toMatch(/^new certificate from ".*live\.pem", valid until /);
    // Open connections stay open.
    expect(socket.readyState).toBe(WebSocket.OPEN);
    socket.terminate();
  } finally {
    await service.close();
  }
});

test('says in one line what is wrong with the files', async () => {
  using directory = temporaryDirectory();
  const at = (name: string): string => join(directory.path, name);
  const { certificate } = makeIssuer(directory.path);
  const [mine, other] = [certificate('mine'), certificate('other')];
  writeFileSync(at('text.pem'), 'hello');
  execFileSync('openssl', ['ec', '-in', mine.key, '-aes256', '-passout', 'pass:secret', '-out', at('locked.key')], { stdio: 'ignore' });
  const refusal = async (tls: TestCertificate): Promise<string> => {
    const error: unknown = await listen(tls).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'bad_certificate' });
    return (error as Error).message;
  };
  expect(await refusal({ cert: at('nowhere.pem'), key: mine.key })).toMatch(/^Cannot read certificate ".*nowhere\.pem": ENOENT/);
  expect(await refusal({ cert: mine.cert, key: at('nowhere.key') })).toMatch(/^Cannot read key ".*nowhere\.key": ENOENT/);
  expect(await refusal({ cert: at('text.pem'), key: mine.key })).toBe(`Cannot use "${at('text.pem')}": it must be a certificate in PEM`);
  expect(await refusal({ cert: mine.cert, key: at('locked.key') })).toBe(
    `Cannot use "${at('locked.key')}": it must be a private key in PEM, without a passphrase`,
  );
  expect(await refusal({ cert: mine.cert, key: other.key })).toBe(
    `Cannot use key "${other.key}": it is not that of the certificate "${mine.cert}"`,
  );
});
