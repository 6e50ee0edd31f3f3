// SPDX-License-Identifier: Apache-2.0
// The live page of a server: polls the server's state and shows it.
import {at, node} from './dom.js';
import {showTime} from './live_charts.js';
import {showLogs, showPlan} from './live_plans.js';
import {openRequests, showRequests} from './live_requests.js';
import {duration, grouped, many, mark, say, shareText} from './live_text.js';
import {askWhatIf} from './live_what_if.js';
import {bytes} from './numbers.js';

const facts = new Map();
function fact(name, value, small) {
  if (!facts.has(name)) {
    const place = [node('span'), node('small')];
    facts.set(name, place);
    at('facts').append(node('div', {}, node('dt', {}, name), node('dd', {}, ...place)));
  }
  const [number, text] = facts.get(name);
  say(number, value);
  say(text, small);
}
function showFacts(e, s) {
  const blocks = n => e.layer_block_bytes > 0 ? bytes(n * e.layer_block_bytes) : many(n, 'block');
  const ttft = s.ttft_count > 0 ? s.ttft_sum_s / s.ttft_count : null;
  const refusal = e.refusal ? `last: ${e.refusal}` : 'cancelled, refused';
  fact('running', grouped(e.running), `${many(e.steps, 'step')} so far`);
  fact('waiting', grouped(e.waiting), 'never run yet');
  fact('preempted', grouped(e.preempted), `${grouped(e.preemptions)} times in all`);
  fact('KV on the device', shareText(e.device_used, e.device_capacity),
       `${blocks(e.device_used)} of ${blocks(e.device_capacity)}`);
  fact('KV on the host', blocks(e.host_used), `of ${blocks(e.host_capacity)}`);
  if (e.tier)
    fact('KV of ended requests', bytes(e.tier.bytes),
         `of ${bytes(e.tier.capacity_bytes)} on the host; found ` +
             `${shareText(e.tier.found, e.tier.asked)} of prompts, ${
                 shareText(e.tier.from_disk, e.tier.asked)} on disk; loaded ${shareText(e.tier.loaded, e.tier.asked)}`);
  fact('stalled', shareText(e.stall_s, e.busy_s), `${duration(e.stall_s)} of ${duration(e.busy_s)} in steps`);
  fact('tokens handed over', grouped(e.released), `${grouped(e.held)} held back now`);
  fact('TBT attainment', shareText(s.on_time, s.on_time + s.missed), `${many(s.missed, 'deadline')} missed`);
  fact('first token in time', shareText(s.first_in_time, s.first_in_time + s.first_late),
       `${grouped(s.first_late)} late`);
  fact('mean time to first token', duration(ttft), `of ${many(s.ttft_count, 'answer')}, as sent`);
  fact('ended', grouped(e.ended), 'by themselves');
  fact('left and refused', `${grouped(e.cancelled)}, ${grouped(s.refused)}`, refusal);
}

function status(text, kind) {
  say(at('said'), text);
  mark(document.querySelector('.dot'), 'class', 'dot ' + kind);
}
function showStatus(e, s) {
  if (e.failure) return status('failed', 'bad');
  if (s.draining) return status(`draining: ${many(s.under_way, 'request')} under way`, 'bad');
  if (!s.ready) return status('loading the weights', '');
  const isIdle = e.running + e.waiting + e.preempted === 0;
  return status(!isIdle ? 'serving' : e.steps ? 'ready, idle' : 'ready; nothing served yet', 'good');
}
function showAlert(text) {
  at('alert').hidden = text === '';
  if (text) say(at('alert'), text);
}
function sampleText(model) {
  const address = new URL('v1/completions', location.href).href, stream = '"max_tokens": 64, "stream": true';
  return `curl -N ${address} -H 'Content-Type: application/json' \\\n` +
         `  -d '{"model": ${JSON.stringify(model)}, "prompt": "It is a truth", ${stream}}'`;
}
function show({server: s, engine: e}) {
  const now = e.now_s + e.age_s;
  say(at('model'), s.model);
  say(at('about'), s.about);
  document.title = `${e.running} running · ${s.model} · Sluice`;
  at('all').hidden = false;
  at('all').classList.remove('old');
  showStatus(e, s);
  showAlert(e.failure ? `The engine has stopped: ${e.failure}` : '');
  say(at('sample'), sampleText(s.model));
  showFacts(e, s);
  showRequests(e, now);
  showPlan(e, now);
  showTime(e, now);
  showLogs(e);
}

const calm = matchMedia('(prefers-reduced-motion: reduce)');
const polled = {
  isHeld: false,
  isAsking: false,
  timer: 0,
  clock: ''
};
const isWatched = () => !document.hidden && !polled.isHeld;
async function askState(signal) {
  const answer = await fetch(new URL('live/state', location.href), {signal, cache: 'no-store'});
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const state = await answer.json();
  if (!state.engine || !state.engine.history) throw new Error('an answer without figures');
  return state;
}
function showSilence(error) {
  const reason = error.name === 'AbortError' ? 'no answer within 4 s' : error.message;
  const old = polled.clock ? `; this page shows its state at ${polled.clock}` : '';
  status('no answer', 'bad');
  showAlert(`The server does not answer${old}. This page asks again every 2 s. (${reason})`);
  at('all').classList.add('old');
}
async function ask() {
  if (polled.isAsking) return;
  polled.isAsking = true;
  let wait = calm.matches ? 2000 : 500;
  if (isWatched()) {
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), 4000);
    try {
      const state = await askState(stop.signal);
      if (!polled.isHeld) {
        polled.clock = new Date().toLocaleTimeString();
        show(state);
      }
    } catch (error) {
      wait = 2000;
      showSilence(error);
    } finally {
      clearTimeout(timer);
    }
  }
  polled.isAsking = false;
  polled.timer = setTimeout(ask, wait);
}

openRequests();
at('hold').addEventListener('click', () => {
  polled.isHeld = !polled.isHeld;
  mark(at('hold'), 'aria-pressed', polled.isHeld);
  if (polled.isHeld) status('held still', '');
});
document.addEventListener('visibilitychange', () => {
  if (document.hidden) return;
  clearTimeout(polled.timer);
  ask();
});
ask();
askWhatIf(isWatched);
