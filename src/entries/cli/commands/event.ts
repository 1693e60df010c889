import type { Command } from "commander";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { json, line } from "../output.ts";
import { jsonValue, label } from "../parse.ts";
import { tasksText } from "../text.ts";

const examples = `
Examples:
  $ dbq event approved:4711
  $ dbq event approved:4711 '{"by": "eva"}'`;

export function addEvent(program: Command): void {
  program
    .command("event")
    .summary("emit an event that tasks wait for")
    .description(
      "Emit an event. Tasks that wait for it go on, and tasks that wait for it later get it at once. The first event of a name counts.",
    )
    .argument("<name>", "the name of the event", label)
    .argument("[payload]", "what the tasks get, as JSON", "null")
    .addHelpText("after", examples)
    .action(async (name: string, payload: string, _: unknown, self: Command) => {
      await emit(name, payload, self.optsWithGlobals<CommonOptions>());
    });
}

async function emit(name: string, text: string, options: CommonOptions): Promise<void> {
  const { countWaitingForEvent } = await import("../../../index.ts");
  const payload = jsonValue(text, "payload");
  await withExistingQueue(options, async (queue) => {
    // Before the emit, which ends their waits.
    const waited = await countWaitingForEvent(queue, name);
    const changed = await queue.emitEvent(name, payload);
    if (options.json) json(changed ? { changed, waited } : { changed });
    else if (changed) line(`event ${name} is emitted: ${waitedText(waited)}`);
    else line(`there is an event ${name} already, and the first one counts: nothing was changed`);
  });
}

const waitedText = (waited: number): string =>
  waited === 0
    ? "no task waits for it yet, and it is kept for 30 days"
    : `${tasksText(waited)} waited for it`;
