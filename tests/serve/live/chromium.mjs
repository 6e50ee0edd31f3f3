// SPDX-License-Identifier: Apache-2.0
// Controls the system's Chromium, without a window, by its DevTools protocol over two pipes; needs no npm package.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/// Opens a page: `read(expression)` evaluates, `press(key)` presses a key, `end()` closes the browser.
export async function open(url, width = 1280, height = 900) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-chromium-'));
  const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
    '--disable-background-networking', '--remote-debugging-pipe', `--user-data-dir=${folder}`,
    `--window-size=${width},${height}`, 'about:blank'];
  const child = spawn(process.env.CHROMIUM, flags, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
  const [, , , to, from] = child.stdio;
  const waiting = new Map();
  const over = new Promise((resolve) => child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('Chromium has ended'));
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    resolve();
  }));
  let unread = '', last = 0;
  to.on('error', () => {}); // the browser has ended, as `over` reports
  from.setEncoding('utf8').on('data', (text) => {
    const messages = (unread + text).split('\0');
    unread = messages.pop();
    for (const message of messages.map((one) => JSON.parse(one))) {
      const asked = waiting.get(message.id);
      if (!asked) continue; // an event
      waiting.delete(message.id);
      message.error ? asked.reject(new Error(message.error.message)) : asked.resolve(message.result);
    }
  });
  const ask = (method, params = {}, sessionId = undefined) =>
    new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject });
      to.write(JSON.stringify({ id: last, method, params, sessionId }) + '\0');
    });
  const { targetId } = await ask('Target.createTarget', { url: 'about:blank' });
  const { sessionId } = await ask('Target.attachToTarget', { targetId, flatten: true });
  const page = (method, params) => ask(method, params, sessionId);
  await page('Page.enable');
  await page('Page.navigate', { url });
  return {
    page,
    /// The value of an expression on the page.
    async read(expression) {
      const { result, exceptionDetails } = await page('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    },
    async press(key) {
      for (const type of ['keyDown', 'keyUp'])
        await page('Input.dispatchKeyEvent', { type, key, code: key, text: type === 'keyDown' && key === 'Enter' ? '\r' : undefined });
    },
    async end() {
      ask('Browser.close').catch(() => child.kill());
      await over;
    },
  };
}
