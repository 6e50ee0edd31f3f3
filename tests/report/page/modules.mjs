// SPDX-License-Identifier: Apache-2.0
// Checks the pages' scripts with node, without a browser: each module parses, each import is exported, and the modules
// of a page, which become one script, declare no name twice.
// usage: node modules.mjs PAGES FILES      the folder of the modules; the header that CMake makes from them
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [pages, files] = process.argv.slice(2);
let wrong = 0;
/// As one module, in which declaring a name twice is an error.
function check(name, text) {
  try {
    execFileSync(process.execPath, ['--input-type=module', '--check', '-'], { input: text, stdio: ['pipe', 'ignore', 'pipe'] });
  } catch (error) {
    ++wrong;
    console.log(`${name}: ${error.stderr}`);
  }
}
const modules = readdirSync(pages).filter((name) => name.endsWith('.js'));
for (const name of modules) check(name, readFileSync(join(pages, name), 'utf8'));

const header = readFileSync(files, 'utf8');
const texts = new Map([...header.matchAll(/string_view (\w+) = R"page\(([^]*?)\)page";/g)].map(([, name, text]) => [name, text]));
const scripts = [...header.matchAll(/string_view (\w+)_script\[\] = \{([^}]*)\}/g)].map(([, name, list]) => [name, list.split(', ')]);
for (const [name, list] of scripts) check(`${name}_script`, list.map((module) => texts.get(module)).join(''));

// Only linked: running it would need a page, which node does not have.
const folder = mkdtempSync(join(tmpdir(), 'sluice-modules-'));
cpSync(pages, folder, { recursive: true });
writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
for (const [name] of scripts)
  await import(pathToFileURL(join(folder, `${name}.js`)).href).catch((error) => {
    if (error instanceof ReferenceError && error.message.startsWith('document ')) return;
    ++wrong;
    console.log(`${name}.js: ${error.message}`);
  });
rmSync(folder, { recursive: true });
console.log(`${modules.length} modules, ${scripts.length} scripts: ${wrong} wrong`);
process.exit(wrong || modules.length < 10 || scripts.length < 5 ? 1 : 0);
