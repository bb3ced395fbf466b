import { expect, it } from 'vitest';
import { processLife } from './process-table.ts';
import { placeOf } from './rank-environment.ts';
import { RankFinder } from './rank-finder.ts';

it.each([
  ['/run/kineto', '/run/kineto', /has not loaded torch yet/],
  ['/run/kineto/', '/run/kineto', /has not loaded torch yet/],
  ['/run/kineto', '/run/./kineto/', /has not loaded torch yet/],
  ['/run/other', '/run/kineto', /^it asks in the folder "\/run\/other", and this agent answers in "\/run\/kineto": --socket-dir$/],
  [undefined, '/run/kineto', /^it asks by abstract name \(no KINETO_IPC_SOCKET_DIR\), and this agent answers in "\/run\/kineto"/],
])('says why a rank is silent that asks in %s, of an agent that answers in %s', (asks, answers, why) => {
  const environment = { RANK: '0', WORLD_SIZE: '1', KINETO_USE_DAEMON: '1', ...(asks !== undefined && { KINETO_IPC_SOCKET_DIR: asks }) };
  const place = placeOf(environment, {}, 'job');
  const life = processLife(process.pid);
  if (place === undefined || 'wrong' in place || life === undefined) expect.unreachable();
  const [found, gone, notice] = [() => {}, () => {}, () => {}];
  const finder = new RankFinder({ environment: {}, run: 'job', isWanted: () => true, socketFolder: answers, found, gone, notice });
  expect(finder.whySilent({ place, life, uid: 0, ownPid: life.pid, seenAt: 0, askedAt: undefined })).toMatch(why);
});
