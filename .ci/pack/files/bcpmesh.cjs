#!/usr/bin/env node
// Starts the program of the package for this machine.
"use strict";
const { spawn } = require("node:child_process");

const name = `@bcpmesh/${process.platform}-${process.arch}`;
const program = process.platform === "win32" ? "bcpmesh.exe" : "bcpmesh";
let path;
try {
  path = require.resolve(`${name}/bin/${program}`);
} catch {
  console.error(`bcpmesh: the package ${name} is not installed: is there one for this machine, and were optional dependencies left out?`);
  process.exit(1);
}
const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => { console.error(`bcpmesh: ${error.message}`); process.exit(1); });
child.on("exit", (code, signal) => { process.exit(code ?? (signal ? 1 : 0)); });
