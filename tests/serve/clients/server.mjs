// SPDX-License-Identifier: Apache-2.0
// Starts and ends sluice-serve for a test.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const program = process.env.SLUICE_SERVE;

/// Starts a server with these flags: its address, its metrics, and how to end it.
export async function serve(...flags) {
  const child = spawn(program, ['--port', '0', '--quiet', '--drain-delay', '0', ...flags], { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (text) => (said += text));
  const ended = once(child, 'exit');
  const lines = createInterface({ input: child.stdout });
  const address = await new Promise((resolve, reject) => {
    lines.on('line', (line) => line.startsWith('http://') && resolve(line.split(' ')[0]));
    ended.then(([code]) => reject(new Error(`sluice-serve ended with ${code}: ${said.trim()}`)));
  });
  const url = address.replace(/\/v1$/, '');
  for (let i = 0; i < 200; ++i) {
    if ((await fetch(`${url}/ready`)).ok) break;
    await sleep(50);
  }
  return {
    url,
    api: address,
    /// A value of /metrics.
    async metric(name) {
      const text = await (await fetch(`${url}/metrics`)).text();
      const line = text.split('\n').find((one) => one.startsWith(name) && /^[ {]/.test(one.slice(name.length)));
      return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ')));
    },
    /// Sends TERM and returns the exit status.
    async end() {
      child.kill('SIGTERM');
      const [code] = await ended;
      return code;
    },
  };
}

/// The model that comes with Sluice, which has a chat format; without it, the small random one.
export async function serveModel(...flags) {
  try {
    return await serve('--model', 'demo', ...flags);
  } catch {
    return await serve('--model', 'tiny', ...flags);
  }
}

/// Whether the served model has a chat format.
export async function chats(server, headers = {}) {
  const answer = await fetch(`${server.api}/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1 }),
  });
  return answer.ok;
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/// Waits until `met()` is true, for at most ten seconds.
export async function eventually(met) {
  for (let i = 0; i < 200; ++i) {
    if (await met()) return true;
    await sleep(50);
  }
  return false;
}
