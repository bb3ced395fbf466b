"""Trains STEPS batches with somebody's trainer (TRAINER: lightning or transformers), and ranktrace's callback for it. Goes on from the checkpoint in
CHECKPOINTS if there is one, with as many batches, and leaves one."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import ranktrace
import torch

steps = int(os.environ["STEPS"])
torch.manual_seed(1)
folder = os.environ.get("CHECKPOINTS") or tempfile.mkdtemp()
epochs = 2 if os.listdir(folder) else 1


def with_lightning():
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(16, 1)

        def training_step(self, batch, index):
            return self.layer(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", devices=1, default_root_dir=folder, callbacks=[ranktrace.LightningCallback()], **quiet)
    checkpoint = os.path.join(folder, "last.ckpt")
    loader = torch.utils.data.DataLoader(torch.randn(4 * steps, 16), batch_size=4)
    trainer.fit(Module(), loader, ckpt_path=checkpoint if epochs == 2 else None)
    trainer.save_checkpoint(checkpoint)


def with_transformers():
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(16, 1)

        def forward(self, x=None, labels=None):
            return {"loss": (self.layer(x).squeeze(-1) - labels).square().mean()}

    data = [{"x": row, "labels": row.sum()} for row in torch.randn(8 * steps, 16)]
    arguments = transformers.TrainingArguments(
        folder, per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=epochs, logging_steps=5, report_to=[], save_strategy="epoch", use_cpu=True, disable_tqdm=True
    )
    trainer = transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[ranktrace.TransformersCallback()])
    trainer.train(resume_from_checkpoint=epochs == 2)


{"lightning": with_lightning, "transformers": with_transformers}[os.environ["TRAINER"]]()
