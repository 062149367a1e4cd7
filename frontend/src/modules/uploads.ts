import { Upload } from "tus-js-client";
import { csrfToken } from "../base/csrf";
import { bytes, duration } from "../base/format";
import { t } from "../base/texts";
import { ENDPOINT, PIECE_BYTES, RETRY_MS, reasonOf } from "../upload/send";
import { Speed } from "../upload/speed";

// Files dropped anywhere on the page, or chosen; each goes by tus, can be paused, and goes on where it stopped: after a
// lost connection by itself, after a reload when the same file is chosen again (its address is kept in this browser).

const AT_ONCE = 3;

interface Row {
  file: File;
  upload: Upload;
  start: () => void;
  isStarted: boolean;
  isOver: boolean;
}

export function mount(root: HTMLElement): () => void {
  const list = root.querySelector<HTMLElement>("[data-uploads]");
  const input = root.querySelector<HTMLInputElement>("[data-files]");
  const drop = root.querySelector<HTMLElement>("[data-drop]");
  const rows: Row[] = [];
  let depth = 0;

  function startNext(): void {
    const active = rows.filter((row) => row.isStarted && !row.isOver).length;
    for (const row of rows.filter((one) => !one.isStarted).slice(0, Math.max(0, AT_ONCE - active))) row.start();
  }

  function add(files: Iterable<File>): void {
    for (const file of files) {
      const row = makeRow(root, file, () => {
        row.isOver = true;
        startNext();
      });
      rows.push(row);
      list?.append(row.element);
    }
    startNext();
  }

  const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
  const onEnter = (event: DragEvent): void => {
    if (!hasFiles(event)) return;
    depth += 1;
    drop?.classList.add("drop-over");
  };
  const onLeave = (): void => {
    depth = Math.max(0, depth - 1);
    if (depth === 0) drop?.classList.remove("drop-over");
  };
  const onOver = (event: DragEvent): void => {
    if (hasFiles(event)) event.preventDefault();
  };
  const onDrop = (event: DragEvent): void => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth = 0;
    drop?.classList.remove("drop-over");
    add(event.dataTransfer?.files ?? []);
  };
  const onUnload = (event: BeforeUnloadEvent): void => {
    if (rows.some((row) => row.isStarted && !row.isOver)) event.preventDefault();
  };
  if (drop) {
    document.addEventListener("dragenter", onEnter);
    document.addEventListener("dragleave", onLeave);
    document.addEventListener("dragover", onOver);
    document.addEventListener("drop", onDrop);
  }
  window.addEventListener("beforeunload", onUnload);
  input?.addEventListener("change", () => {
    add([...(input.files ?? [])]);
    input.value = "";
  });
  return () => {
    document.removeEventListener("dragenter", onEnter);
    document.removeEventListener("dragleave", onLeave);
    document.removeEventListener("dragover", onOver);
    document.removeEventListener("drop", onDrop);
    window.removeEventListener("beforeunload", onUnload);
  };
}

function makeRow(root: HTMLElement, file: File, onOver: () => void): Row & { element: HTMLElement } {
  const speed = new Speed();
  const { element, bar, status, button, cancel } = drawRow(file);
  const dataset = root.dataset.dataset ?? "";
  const upload = new Upload(file, {
    endpoint: root.dataset.endpoint ?? ENDPOINT,
    chunkSize: PIECE_BYTES,
    retryDelays: RETRY_MS,
    removeFingerprintOnSuccess: true,
    metadata: {
      filename: file.name,
      ...(dataset ? { dataset } : { dataset_name: file.name.replace(/\.[^.]+$/, "").slice(0, 200) || file.name }),
    },
    headers: { "X-CSRFToken": csrfToken() },
    // Per person: somebody else in the same browser does not go on with a foreign upload.
    fingerprint: async (chosen) => {
      const one = chosen as File;
      return ["trainyard", root.dataset.person, dataset, one.name, one.size, one.lastModified].join("/");
    },
    onShouldRetry: (error) => {
      const code = error.originalResponse?.getStatus() ?? 0;
      return code === 0 || code >= 500 || code === 409 || code === 423 || code === 429;
    },
    onProgress: (sent, total) => {
      speed.note(sent, performance.now());
      bar.value = total > 0 ? sent / total : 1;
      const pace = speed.perSecond();
      const parts = [`${bytes(sent)} / ${bytes(total)}`];
      if (pace) parts.push(`${bytes(pace)}/s`, t("{time} left", { time: duration((total - sent) / pace) }));
      status.textContent = parts.join(" · ");
    },
    onSuccess: () => {
      bar.value = 1;
      status.textContent = t("All bytes have arrived; the file is looked at.");
      finish(t("Done"));
      arrived(root);
    },
    onError: (error) => {
      status.textContent = reasonOf(error) || t("The connection was lost too often. Press “Go on” to try again.");
      status.classList.add("bad");
      const code = (error as { originalResponse?: { getStatus(): number } | null }).originalResponse?.getStatus() ?? 0;
      if (code >= 400 && code < 500) finish("");
      else pause();
    },
  });

  let isRunning = false;
  function go(): void {
    isRunning = true;
    speed.reset();
    status.classList.remove("bad");
    button.textContent = t("Pause");
    hideUnfinished(file);
    upload.start();
  }
  function pause(): void {
    isRunning = false;
    button.textContent = t("Go on");
  }
  function finish(word: string): void {
    isRunning = false;
    button.hidden = true;
    cancel.hidden = word !== "";
    onOver();
  }
  button.addEventListener("click", () => {
    if (!isRunning) {
      go();
      return;
    }
    void upload.abort();
    pause();
    status.textContent = t("Paused at {share} %", { share: Math.floor(bar.value * 100) });
  });
  cancel.addEventListener("click", () => {
    void upload.abort(true).catch(() => undefined); // what was sent is swept later when this does not arrive
    element.remove();
    onOver();
  });
  const row = {
    element,
    file,
    upload,
    isStarted: false,
    isOver: false,
    start: () => {
      row.isStarted = true;
      void upload.findPreviousUploads().then((known) => {
        if (known[0]) upload.resumeFromPreviousUpload(known[0]);
        go();
      });
    },
  };
  return row;
}

function drawRow(file: File) {
  const element = document.createElement("div");
  element.className = "upload-row";
  const name = document.createElement("strong");
  name.className = "upload-name";
  name.textContent = file.name;
  const bar = document.createElement("progress");
  bar.className = "bar";
  bar.max = 1;
  bar.value = 0;
  const status = document.createElement("span");
  status.className = "num upload-status";
  status.setAttribute("role", "status");
  status.textContent = t("waits for the others");
  const button = document.createElement("button");
  const cancel = document.createElement("button");
  for (const [one, text] of [
    [button, t("Pause")],
    [cancel, t("Remove")],
  ] as const) {
    one.type = "button";
    one.className = "btn btn-sm";
    one.textContent = text;
  }
  element.append(name, bar, status, button, cancel);
  return { element, bar, status, button, cancel };
}

/** The row that said 'choose the same file to go on' has been answered. */
function hideUnfinished(file: File): void {
  for (const row of document.querySelectorAll<HTMLElement>("[data-unfinished] [data-upload]")) {
    if (row.dataset.name === file.name && Number(row.dataset.size) === file.size) row.hidden = true;
  }
}

/** A new version shows on its own page at once; a new dataset in the list, which refreshes itself. */
function arrived(root: HTMLElement): void {
  const dataset = root.dataset.dataset;
  if (dataset) location.assign((root.dataset.datasetUrl ?? "").replace("/0/", `/${dataset}/`));
}
