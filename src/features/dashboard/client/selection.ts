/** The checkboxes of tasks: one for all of the page, and how many are checked. */

export function watchSelection(): void {
  document.addEventListener("change", ({ target }) => {
    if (!(target instanceof HTMLInputElement) || target.type !== "checkbox" || !target.form) return;
    const boxes = [...target.form.querySelectorAll<HTMLInputElement>('input[type="checkbox"][name="id"]')];
    const all = document.querySelector<HTMLInputElement>("#select-all");
    if (target === all) for (const box of boxes) box.checked = all.checked;
    const checked = boxes.filter((box) => box.checked).length;
    if (all) {
      all.checked = checked > 0 && checked === boxes.length;
      all.indeterminate = checked > 0 && checked < boxes.length;
    }
    const label = target.form.querySelector('input[name="scope"][value="ids"] + span');
    if (label) label.textContent = checked === 0 ? "selected" : `selected (${checked})`;
  });
}

/** Whether the person has chosen something that would be lost with the content of the page. */
export const hasSelection = (): boolean => document.querySelector('#main input[name="id"]:checked') !== null;
