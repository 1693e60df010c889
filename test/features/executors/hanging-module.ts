/** A module of tasks whose import takes a minute, which is for good. */
const end = performance.now() + 60_000;
while (performance.now() < end);
throw new Error("nobody has ended the process that imports this");
