# ResNet-50 with random weights, exported by PyTorch; input and output beside it (npy)
import sys, torch, torch.nn as nn, numpy as np
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(s, ci, c, stride):
        super().__init__()
        s.c1=nn.Conv2d(ci,c,1,bias=False); s.b1=nn.BatchNorm2d(c)
        s.c2=nn.Conv2d(c,c,3,stride,1,bias=False); s.b2=nn.BatchNorm2d(c)
        s.c3=nn.Conv2d(c,4*c,1,bias=False); s.b3=nn.BatchNorm2d(4*c)
        s.down=nn.Sequential(nn.Conv2d(ci,4*c,1,stride,bias=False),nn.BatchNorm2d(4*c)) if stride!=1 or ci!=4*c else None
        s.relu=nn.ReLU()
    def forward(s,x):
        y=s.relu(s.b1(s.c1(x))); y=s.relu(s.b2(s.c2(y))); y=s.b3(s.c3(y))
        return s.relu(y+(s.down(x) if s.down else x))
class ResNet50(nn.Module):
    def __init__(s):
        super().__init__()
        s.stem=nn.Sequential(nn.Conv2d(3,64,7,2,3,bias=False),nn.BatchNorm2d(64),nn.ReLU(),nn.MaxPool2d(3,2,1))
        L=[];ci=64
        for st,(n,c) in enumerate([(3,64),(4,128),(6,256),(3,512)]):
            for i in range(n): L.append(Block(ci,c,2 if i==0 and st else 1)); ci=4*c
        s.layers=nn.Sequential(*L); s.pool=nn.AdaptiveAvgPool2d(1); s.fc=nn.Linear(2048,1000)
    def forward(s,x): return s.fc(torch.flatten(s.pool(s.layers(s.stem(x))),1))
m=ResNet50()
for b in m.modules():
    if isinstance(b,nn.BatchNorm2d): nn.init.uniform_(b.weight,.5,1.); nn.init.normal_(b.bias,0,.1); nn.init.normal_(b.running_mean,0,.1); nn.init.uniform_(b.running_var,.5,1.5)
m=m.eval(); x=torch.randn(8,3,224,224)
with torch.no_grad(): y=m(x)
np.save(sys.argv[1]+'/x.npy',x.numpy()); np.save(sys.argv[1]+'/y.npy',y.numpy())
torch.onnx.export(m,(x,),sys.argv[1]+'/resnet50.onnx',input_names=['x'],output_names=['y'],dynamic_axes={'x':{0:'N'},'y':{0:'N'}},opset_version=17,dynamo=False)
print('exported')
